"""Run with `python3 -m unittest`; nothing has to be installed. One of these tests fails."""

import unittest

from pages import page_count


class PageCountTest(unittest.TestCase):
    def test_full_pages(self):
        self.assertEqual(page_count(20), 2)

    def test_a_last_page_that_is_not_full(self):
        self.assertEqual(page_count(21), 3)
