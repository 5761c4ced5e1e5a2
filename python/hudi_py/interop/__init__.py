"""Tables as other systems see them."""
