// Package mirror maps shared file mappings of a program into this process, so that GPU work can
// access that memory: both processes see the same pages of the file.
//
// The file is found through /proc/PID/maps and opened with this process's rights, which are the
// program's. It is used only if device and inode match the mapping. The worker borrows files from
// phosd (package borrower) if the program is not dumpable, or if the file was removed and the
// program has closed it. Private memory cannot be mirrored. Read mirror.go first.
package mirror
