"""Guards as files for other runtimes: one graph, ONNX or torch.export, with everything inside."""

from .export import Exported, export_guard
from .record import ExportRecord
from .subjects import ExportOptions

__all__ = ["ExportOptions", "ExportRecord", "Exported", "export_guard"]
