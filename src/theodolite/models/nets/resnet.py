"""ResNets with the ImageNet or the CIFAR stem, named as the public checkpoints name them.

Those of 6n + 2 layers are the CIFAR networks of He et al. (2016), section 4.2: three stages of n blocks with
16, 32 and 64 channels. Where a shortcut changes its width it is a 1×1 convolution, as in all others here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...core.errors import InputError

_STAGES = (64, 128, 256, 512)
_SMALL_STAGES = (16, 32, 64)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = _shortcut(channels, width, stride)

    def forward(self, maps: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(maps)))
        return torch.relu(self.bn2(self.conv2(out)) + self.downsample(maps))


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions around a shortcut; the stride is in the middle one."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1, self.bn1 = _conv(channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.downsample = _shortcut(channels, outputs, stride)

    def forward(self, maps: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(maps)))
        out = torch.relu(self.bn2(self.conv2(out)))
        return torch.relu(self.bn3(self.conv3(out)) + self.downsample(maps))


class ResNet(nn.Module):
    """Stem, a stage a width, global mean, linear head `fc`. ``stem_stride`` is the CIFAR stem's."""

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        depths: tuple[int, ...],
        classes: int,
        *,
        cifar_stem: bool,
        widths: tuple[int, ...] = _STAGES,
        image_channels: int = 3,
        stem_stride: int = 1,
    ) -> None:
        super().__init__()
        channels = widths[0]
        self.maxpool: nn.Module
        if cifar_stem:
            self.conv1, self.maxpool = _conv(image_channels, channels, 3, stem_stride), nn.Identity()
        else:
            self.conv1 = nn.Conv2d(image_channels, channels, 7, stride=2, padding=3, bias=False)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.stages = []
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True), start=1):
            blocks: list[nn.Module] = []
            for index in range(depth):
                stride = 2 if number > 1 and index == 0 else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.expansion
            self.stages.append(f"layer{number}")
            self.add_module(self.stages[-1], nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        for stage in self.stages:
            maps = self.get_submodule(stage)(maps)
        logits: Tensor = self.fc(maps.mean(dim=(2, 3)))
        return logits


def resnet18(
    classes: int, *, cifar_stem: bool = False, image_channels: int = 3, stem_stride: int = 1
) -> ResNet:
    """BasicBlock, two a stage; features of width 512."""
    return ResNet(
        BasicBlock,
        (2, 2, 2, 2),
        classes,
        cifar_stem=cifar_stem,
        image_channels=image_channels,
        stem_stride=stem_stride,
    )


def resnet50(
    classes: int, *, cifar_stem: bool = False, image_channels: int = 3, stem_stride: int = 1
) -> ResNet:
    """Bottleneck, 3-4-6-3; features of width 2048."""
    return ResNet(
        Bottleneck,
        (3, 4, 6, 3),
        classes,
        cifar_stem=cifar_stem,
        image_channels=image_channels,
        stem_stride=stem_stride,
    )


def cifar_resnet(layers: int, classes: int, *, image_channels: int = 3, stem_stride: int = 1) -> ResNet:
    """BasicBlock, (layers − 2) / 6 a stage, three narrow stages; features of width 64."""
    blocks, rest = divmod(layers - 2, 6)
    if rest or blocks < 1:
        raise InputError(f"a CIFAR ResNet has 6n + 2 layers (20, 32, 44, 56, …), got {layers}")
    return ResNet(
        BasicBlock,
        (blocks,) * 3,
        classes,
        cifar_stem=True,
        widths=_SMALL_STAGES,
        image_channels=image_channels,
        stem_stride=stem_stride,
    )


def _conv(channels: int, width: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, size, stride=stride, padding=size // 2, bias=False)


def _shortcut(channels: int, width: int, stride: int) -> nn.Module:
    if stride == 1 and channels == width:
        return nn.Identity()
    return nn.Sequential(_conv(channels, width, 1, stride), nn.BatchNorm2d(width))
