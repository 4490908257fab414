"""A control group as text: names, interface files, unit properties, what the kernel keeps or refuses."""
