package proc

// Zombie reports whether the process has ended but has not been reaped, and which process is its
// parent. The pid is not reused until the parent has reaped it.
func (id Identity) Zombie() (parent Identity, zombie bool) {
	stat, err := ReadStat(id.PID)
	if err != nil || !stat.Zombie() {
		return Identity{}, false
	}
	parent, err = Of(stat.Parent)
	if err != nil {
		return Identity{PID: stat.Parent}, true
	}
	return parent, true
}

// Parent returns the pid of a process's parent, or 0 if it is unknown.
func Parent(pid int) int {
	stat, err := ReadStat(pid)
	if err != nil {
		return 0
	}
	return stat.Parent
}

// Descends reports whether pid is ancestor or one of its descendants.
func Descends(pid, ancestor int) bool {
	const maxDepth = 64
	for range maxDepth {
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
		pid = Parent(pid)
	}
	return false
}
