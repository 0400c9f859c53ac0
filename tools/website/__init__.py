"""The site: the pages of ``docs``, a reference of the public names, a page for every dialect.

``make site`` runs ``build.py``.  Nothing here knows what a page says: pages are taken
as they are in the repository (``staging.py``), the reference is read off the sources
(``reference.py``), dialects are asked of the library (``dialects.py``).  Sphinx makes
HTML of them and fails where a reference leads nowhere; ``links.py`` looks at what came out.
"""
