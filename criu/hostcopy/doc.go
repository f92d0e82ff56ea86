// Package hostcopy copies the memory of running processes into images that CRIU takes for those of
// an earlier dump: its parent images. CRIU then writes only the pages that were written since, and
// the processes stand still for that alone.
//
// A process is copied in rounds. Each finds the pages that were written since they were protected
// (package writetrack), protects them and copies them. What is protected at the cut is as it was
// copied, so CRIU, asked for it by its option track-written, takes it from there. Everything else
// it writes itself: new and moved mappings, shared memory, and processes without a userfaultfd.
//
// The images are a list of pages and their content, in the order of addresses. So a page that is
// touched for the first time after the first round has no place: it is marked as written, and CRIU
// writes it.
//
// Read copy.go. Tested by package criu, with a real CRIU.
package hostcopy
