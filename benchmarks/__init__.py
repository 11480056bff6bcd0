"""What it costs and whether it holds: one module for each question, asked through the product's public face."""
