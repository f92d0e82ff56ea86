// Package watchdog is the process of root's that freezes a tree and has CRIU dump it. It carries
// out what phosd says, and when phosd is gone, however that came, it takes everything back: CRIU
// ends, the processes go on where they were, their cgroup is removed. It dies last, and knows
// nothing of images and GPUs.
//
// Should it be killed itself, the next one calls Sweep.
//
// Read order.go first, then serve.go.
package watchdog
