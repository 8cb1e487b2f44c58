"""The report as one HTML file: no network, no script, nothing beside it; plots are inline SVG."""
