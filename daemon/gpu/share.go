package gpu

import "os"

// Sharer is a Memory that can share chunks with other processes.
type Sharer interface {
	// Share exports the memory of a range of mapped chunks. It returns the file that holds the
	// memory, and the range's offset in it. Content and addresses stay. From then on the chunks
	// always count as dirty. The caller closes the file. Sharing a shared range again returns the
	// same place.
	Share(r Range) (file *os.File, offset int64, err error)
	// Import backs a range with memory that another process shared. All processes see each other's
	// stores. The memory is not charged to this process, and lives until its last user unmaps it.
	Import(r Range, file *os.File, offset int64) error
}
