"""Reports as one HTML file: templates, their style and script, and the records behind them."""
