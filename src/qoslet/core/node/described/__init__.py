"""A node that is described by documents and is not the machine that reads them."""
