"""What a training by PyTorch leaves, to the bit."""

import ctypes


def leave(net, path="weights"):
    """Writes all that a module has learnt, by name; not by NumPy, which PyTorch does without."""
    with open(path, "wb") as file:
        for name, tensor in sorted(net.state_dict().items()):
            tensor = tensor.cpu().contiguous()
            file.write(name.encode() + b"\n" + ctypes.string_at(tensor.data_ptr(), tensor.nbytes))
