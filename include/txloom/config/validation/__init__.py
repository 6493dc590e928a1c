"""What models cannot say by themselves: rules across a declaration, and mistakes with file and line."""
