"""Guards as files for other runtimes: one graph with model, score and calibration inside, ONNX or torch.export."""

from .export import Exported, export_guard
from .real import Check
from .record import ExportRecord

__all__ = ["Check", "ExportRecord", "Exported", "export_guard"]
