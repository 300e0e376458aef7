"""Renders a world as registered RGB + radiometric thermal pairs with labels."""
