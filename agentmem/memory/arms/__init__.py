"""What Mem-π is compared with: hints that are looked up in its bank instead of being written."""
