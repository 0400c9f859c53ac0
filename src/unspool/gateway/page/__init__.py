"""The page at ``/``: the playground, a chat with the models served here, and the last requests.

``notes.py`` remembers requests, ``telling.py`` tells one of them as JSON, ``watched.py`` sends
an answer together with the raw text that it was made from, ``files.py`` has the page's files,
and ``desk.py`` puts all of them behind paths.
"""
