// Package code handles the calls about modules, libraries and kernels: loading, launching, and
// questions about them.
package code
