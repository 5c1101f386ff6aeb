"""What metrics ask for: pods and samples are tallied, a tally becomes a replica count. The upstream's arithmetic."""
