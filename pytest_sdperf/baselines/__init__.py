"""What is stored: baselines of devices, published tables, and how such files are kept."""
