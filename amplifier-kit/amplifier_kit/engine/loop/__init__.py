"""The turn engine that the loops share: from prompt to answer, every event once, every call with its result."""

from amplifier_kit.engine.loop.config import UNLIMITED, Limit, LoopConfig
from amplifier_kit.engine.loop.model_call import LoopMemory, ModelCaller
from amplifier_kit.engine.loop.reply import Call, Reply
from amplifier_kit.engine.loop.request import Choice, choose_provider
from amplifier_kit.engine.loop.session import TurnSession
from amplifier_kit.engine.loop.tool_calls import CallFailed, RunningCall, ToolRunner, run_calls
from amplifier_kit.engine.loop.turn import EXECUTION_HEARTBEAT, LOOP_DETECTED, Outcome, Turn, TurnLoop

__all__ = [
    "EXECUTION_HEARTBEAT",
    "LOOP_DETECTED",
    "UNLIMITED",
    "Call",
    "CallFailed",
    "Choice",
    "Limit",
    "LoopConfig",
    "LoopMemory",
    "ModelCaller",
    "Outcome",
    "Reply",
    "RunningCall",
    "ToolRunner",
    "Turn",
    "TurnLoop",
    "TurnSession",
    "choose_provider",
    "run_calls",
]
