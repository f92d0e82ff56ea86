package scheduler

import "slices"

// SameGPUs reports whether two jobs can run on the same GPUs.
func (f *Free) SameGPUs(a, b *Job) bool {
	return !slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.suits(a) != k.suits(b) })
}
