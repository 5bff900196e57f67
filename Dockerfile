FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE LICENSES-DATA.md ./
COPY src src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt '.[serve,demo]' \
 && useradd --create-home guard
USER guard
WORKDIR /guard
EXPOSE 8000
# The token comes from outside: docker run -e THEODOLITE_TOKEN … or a mounted file and --token-file.
ENTRYPOINT ["theodolite", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["imagenet-lite0"]
