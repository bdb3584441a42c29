"""The networks of the benchmark as PyTorch modules."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FashionCNN(nn.Module):
    """f32[N,1,28,28] -> f32[N,10]"""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(64 * 49, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Block(nn.Module):
    """Pre-norm transformer block with causal attention: f32[B,T,D] -> f32[B,T,D]"""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """i64[B,T] -> f32[B,T,V]"""

    def __init__(self, layers, width, heads, positions, symbols):
        super().__init__()
        self.tok, self.pos = nn.Embedding(symbols, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tok(ids) + self.pos.weight[: ids.shape[1]])))

    def step_flops(self, batch, positions, width, layers):
        """Six per parameter and symbol, and the causal half of the attention."""
        params = sum(t.numel() for name, t in self.named_parameters() if not name.startswith(("tok", "pos")))
        return 6 * params * batch * positions + 12 * layers * width * positions * batch * positions // 2


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        plain = stride == 1 and cin == cout
        self.short = nn.Identity() if plain else nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.short(x))


def resnet8():
    """The image network of MLPerf Tiny: f32[N,3,32,32] -> f32[N,10]"""
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2),
                         Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


STAGES = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))


def resnet18(classes, small):
    """ResNet-18; small: the stem for pictures of 32x32."""
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False)] if small else [nn.Conv2d(3, 64, 7, 2, 3, bias=False)]
    pool = [] if small else [nn.MaxPool2d(3, 2, 1)]
    body = [Residual(*stage) for stage in STAGES]
    return nn.Sequential(*stem, nn.BatchNorm2d(64), nn.ReLU(), *pool, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, classes))


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def adamw(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)


def momentum(net):
    return torch.optim.SGD(net.parameters(), 0.1, 0.9)
