"""The dashboard's pages, one file per area; `gateway.http.admin.ui.routes` lists them."""
