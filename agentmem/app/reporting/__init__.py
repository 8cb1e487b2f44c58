"""What runs write down, and how people read it: records, tables, curves, pages, the live view."""
