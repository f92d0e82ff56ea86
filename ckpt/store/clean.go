package store

// unmake takes an Init back. It is for who holds the lock.
func (d *Dir) unmake() {}
