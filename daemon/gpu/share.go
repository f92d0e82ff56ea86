package gpu

import "os"

// Sharer is what a Memory offers whose chunks other processes can have too.
type Sharer interface {
	// Share makes the memory of a range of mapped chunks one that others can adopt, and returns the
	// file that holds it and the range's offset in there. Content and addresses stay; from now on the
	// chunks count as written, whatever is cleared. The file is the caller's to close. Sharing what is
	// shared already returns the same place.
	Share(r Range) (file *os.File, offset int64, err error)
	// Adopt backs a range with what is shared in a file: a store there, in whichever process, is seen
	// by all who have it. It is accounted to nobody here, and lives as long as anybody has it. Unmap
	// takes it back.
	Adopt(r Range, file *os.File, offset int64) error
}
