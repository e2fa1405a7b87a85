"""What the API answers: the service builds these models, the client reads them."""
