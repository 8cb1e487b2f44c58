"""What is remembered and shared: data model, configuration, replay, weights, evaluation, telemetry.

Importing this package loads neither ray, vllm, deepspeed, redis, torch nor transformers: each heavy
package is imported where it is used.
"""

__version__ = "0.1.0"
