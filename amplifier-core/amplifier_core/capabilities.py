"""Names of what a model can do, so that providers and apps mean the same thing by the same word."""

TOOLS = "tools"
STREAMING = "streaming"
THINKING = "thinking"
VISION = "vision"
JSON_MODE = "json_mode"
FAST = "fast"
CODE_EXECUTION = "code_execution"
WEB_SEARCH = "web_search"
DEEP_RESEARCH = "deep_research"
LOCAL = "local"
AUDIO = "audio"
IMAGE_GENERATION = "image_generation"
COMPUTER_USE = "computer_use"
EMBEDDINGS = "embeddings"
LONG_CONTEXT = "long_context"
BATCH = "batch"

#: Every name above, in the order it is defined.
ALL_WELL_KNOWN_CAPABILITIES: list[str] = [value for name, value in tuple(globals().items()) if name.isupper()]
