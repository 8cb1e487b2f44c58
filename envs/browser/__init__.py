"""What the environments in a web browser have in common; no environment itself.

    options      what can be set for any of them
    actions      the actions: their form, strict reading of an answer, a random one for measurements
    style        the prompts
    chromium     which browser is used, and how it is made to die with its owner
    process      the one browser of this process, lent to BrowserGym
    observation  from a page to text
    env          `BrowserTextEnv`, to be subclassed: a benchmark says which task an instance is

BrowserGym and Playwright are used in the last three alone and imported when an environment is made: they live
in a virtual environment of their own (`envs/interpreter.py`). One thread only per process may use a browser.
"""
