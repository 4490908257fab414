"""What is read of cgroups: usage as statistics and rates, and the CPU that contending cgroups get."""
