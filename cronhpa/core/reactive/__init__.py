"""The reactive part: pods and samples are grouped and become a replica count, with the upstream's arithmetic."""
