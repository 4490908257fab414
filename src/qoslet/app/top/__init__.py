"""What ``qoslet top`` looks at, recorded over time and played back."""
