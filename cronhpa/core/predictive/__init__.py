"""What a forecast asks for: a floor, or nothing. It never lowers anything."""
