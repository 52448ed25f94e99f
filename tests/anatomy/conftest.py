import pytest

from theodolite.fixtures.subject.subject import Subject


@pytest.fixture(scope="session")
def load():
    """Load a subject; the same one again for the same arguments."""
    known = {}

    def get(spec, **settings):
        key = (spec, repr(sorted(settings.items())))
        if key not in known:
            known[key] = Subject.load(spec, settings=settings)
        return known[key]

    return get
