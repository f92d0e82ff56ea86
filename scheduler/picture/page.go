package picture

import "io"

// Page is the page.
func (a Album) Page(w io.Writer) error { return nil }
