package live

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed page
var files embed.FS

// page serves the files of the page, and no list of them.
func page() http.Handler {
	root, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return http.FileServerFS(root)
}
