"""What people look at: tables, figures, the page."""
