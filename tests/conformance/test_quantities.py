"""The upstream's quantity parser, text by text."""

from pathlib import Path

from conformance.quantities import differences

VECTORS = Path(__file__).parent / "vectors"


def test_every_recorded_text_is_read_as_the_upstream_reads_it():
    """Overflow, wrong rounding of large negative numbers and echoed texts are part of it."""
    assert [] == differences(VECTORS / "quantities.jsonl.gz")
