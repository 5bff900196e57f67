"""What people look at: tables and figures."""
