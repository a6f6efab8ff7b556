"""Show search results page by page."""


def page_count(results: int, per_page: int = 10) -> int:
    """Return the number of pages that show all results."""
    return results // per_page
