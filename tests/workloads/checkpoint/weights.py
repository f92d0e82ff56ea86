"""Writes the exact result of a training by PyTorch."""

import ctypes


def leave(net, path="weights"):
    """Writes all weights of a module by name. PyTorch need not have NumPy, so it does without."""
    with open(path, "wb") as file:
        for name, tensor in sorted(net.state_dict().items()):
            tensor = tensor.cpu().contiguous()
            file.write(name.encode() + b"\n" + ctypes.string_at(tensor.data_ptr(), tensor.nbytes))
