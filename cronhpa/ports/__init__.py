"""What many share: places, turns, the loop's time, our own ports (/metrics, probes, the page); the words of errors."""
