"""Pictures of commands. This file and `drawing` import no matplotlib, which an extra installs."""
