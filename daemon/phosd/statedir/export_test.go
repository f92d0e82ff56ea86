package statedir

// LetGo drops the lock as the end of the process would.
func (d *Dir) LetGo() { _ = d.own.Close() }
