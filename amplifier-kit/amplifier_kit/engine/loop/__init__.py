"""The turn engine that the loops share: from prompt to answer, every event once, every call with its result."""

from amplifier_kit.engine.loop.asking import Asker, LoopMemory, RequestDenied
from amplifier_kit.engine.loop.calls import CallRunner, Finished, Passage, Refused, Target, denied_by_hook
from amplifier_kit.engine.loop.config import UNLIMITED, Limit, LoopConfig
from amplifier_kit.engine.loop.guard import Circle, LoopGuard, Step
from amplifier_kit.engine.loop.host import Host
from amplifier_kit.engine.loop.orchestrator import TurnLoop
from amplifier_kit.engine.loop.outside import run_calls
from amplifier_kit.engine.loop.reply import Call, Reply
from amplifier_kit.engine.loop.request import Choice, choose_provider
from amplifier_kit.engine.loop.turn import EXECUTION_HEARTBEAT, LOOP_DETECTED, Outcome, Turn

__all__ = [
    "EXECUTION_HEARTBEAT",
    "LOOP_DETECTED",
    "UNLIMITED",
    "Asker",
    "Call",
    "CallRunner",
    "Choice",
    "Circle",
    "Finished",
    "Host",
    "Limit",
    "LoopConfig",
    "LoopGuard",
    "LoopMemory",
    "Outcome",
    "Passage",
    "Refused",
    "Reply",
    "RequestDenied",
    "Step",
    "Target",
    "Turn",
    "TurnLoop",
    "choose_provider",
    "denied_by_hook",
    "run_calls",
]
