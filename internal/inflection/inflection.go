// Package inflection keeps the library github.com/gobuffalo/flect, which controller-tools needs for plurals, from reading
// inflections.json and acronyms.json in the working directory: in a checkout, somebody else wrote them.
//
// That library reads while the program starts, so that nothing in main is early enough. This package imports syscall alone.
// Go initialises packages in the order of their paths as soon as all their imports are initialised (Program initialization
// in the language specification): this one comes before time, which os imports, and so before everything that can open a
// file. A program imports it for this effect; it has no names. A variable that is set is left alone.
package inflection

import "syscall"

func init() { //nolint:gochecknoinits // the library reads in its own init
	for _, name := range []string{"INFLECT_PATH", "ACRONYMS_PATH"} {
		if _, set := syscall.Getenv(name); !set {
			_ = syscall.Setenv(name, "") // the empty path leads to no file
		}
	}
}
