"""Full-screen programs of the command line; each needs the extra ``top``."""
